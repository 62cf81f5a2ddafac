"""Arrays in an answer: a page looks at them in place, where JSON would take too long.

    4 bytes     length of the header, little-endian
    header      strict JSON, padded with spaces, so that header and length fill a multiple of 8
    arrays      little-endian, one behind the other, each padded to a multiple of 8

The header's `columns` says of each array {name, dtype, shape, offset}; offsets count from behind the header. NaN
travels as NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from taut.store.codec import to_json


def pack(header: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> bytes:
    """`columns` are float32, int32 or uint8."""
    described, bodies, offset = [], [], 0
    for name, array in columns.items():
        body = array.astype(array.dtype.newbyteorder("<")).tobytes()
        body += b"\0" * (-len(body) % 8)
        described.append(
            {"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "offset": offset}
        )
        bodies.append(body)
        offset += len(body)
    text = to_json({**header, "columns": described}).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return struct.pack("<I", len(text)) + text + b"".join(bodies)
