"""CPU time of decoding photographs by themselves, in milliseconds each: decode_time.py SECONDS FILE..."""

import sys
import time

from images import decode

bodies = [open(file, "rb").read() for file in sys.argv[2:]]
for body in bodies:
    decode(body)
count, start, cpu = 0, time.perf_counter(), time.process_time()
while time.perf_counter() - start < float(sys.argv[1]):
    for body in bodies:
        decode(body)
    count += len(bodies)
print((time.process_time() - cpu) * 1000 / count)
