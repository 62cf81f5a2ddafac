"""Lets the tests of this folder import made_up.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
