"""Taut in the browser: a server over a folder of runs, and its pages. No torch in the server's process."""
