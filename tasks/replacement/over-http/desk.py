"""Ask the desk: python3 desk.py TOOL [FIELD=VALUE ...]

Prints what it answers, and its status on the second output; ends with 1 unless that is 200.
"""

import json
import sys
import urllib.error
import urllib.request

tool, *fields = sys.argv[1:]
body = json.dumps(dict(field.split("=", 1) for field in fields)).encode()
try:
    answer = urllib.request.urlopen(f"http://desk.world/{tool}", body)
except urllib.error.HTTPError as refused:
    answer = refused
print(answer.read().decode())
print(answer.status, file=sys.stderr)
sys.exit(answer.status != 200)
