"""What transformers would print is kept away."""

from transformers import modeling_gguf_pytorch_utils

from taut.launch.quiet import quiet_transformers


def test_the_reader_of_gguf_files_draws_no_bar(capsys):
    quiet_transformers()
    assert list(modeling_gguf_pytorch_utils.tqdm(range(3), desc="Converting and de-quantizing")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")
