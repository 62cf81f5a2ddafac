"""What other libraries would print is kept away."""

import logging

from transformers import modeling_gguf_pytorch_utils

from taut.launch.quiet import quiet_libraries


def test_the_reader_of_gguf_files_draws_no_bar(capsys):
    quiet_libraries()
    assert list(modeling_gguf_pytorch_utils.tqdm(range(3), desc="Converting and de-quantizing")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_bitsandbytes_advises_nobody(capfd):
    """peft imports it, where it is installed, for any adapter."""
    quiet_libraries()
    logging.getLogger("bitsandbytes.backends.cpu.ops").warning("Failed to load a kernel")
    assert capfd.readouterr() == ("", "")
