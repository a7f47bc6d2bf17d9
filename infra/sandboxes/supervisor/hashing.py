"""SHA-256, from whichever C module this Python has it in."""

try:
    from _sha256 import sha256 as sha256  # type: ignore[import-not-found]
except ImportError:  # Python 3.12 and later have it elsewhere; some builds have OpenSSL's only
    try:
        from _sha2 import sha256 as sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256 as sha256
