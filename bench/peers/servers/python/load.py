"""Callers in the process of what answers them: closed and open loops, as the Node peers have them, with lines of JSON for the measuring process."""

import base64
import json
import math
import threading
import time
from collections import deque

import numpy


def say(**line):
    print(json.dumps(line), flush=True)


class Load:
    """One level. Threads take what is to be answered, and say when it is; a request is its start and the index of its body."""

    def __init__(self, level, bodies):
        self.level = level
        self.bodies = bodies
        self.lock = threading.Condition()
        self.latencies_us = []
        self.samples = []
        self.next_sample = 1
        self.sent = self.answers = self.answered = 0
        self.closed = level.get("callers") is not None
        self.phase = "warm-up"
        self.running = 0
        start = time.perf_counter()
        self.warm_until = start + level["warmupSeconds"]
        if self.closed:
            self.waiting = deque(start for _ in range(level["callers"]))
        else:
            self.end = self.warm_until + level["seconds"]
            self.give_up = self.end + max(5, level["seconds"])
            self.waiting = deque((start + numpy.fromfile(level["arrivals"], "<f8") / 1000).tolist())

    def take(self, most):
        """Up to so many requests that wait, at least one; None when the level is over."""
        with self.lock:
            while True:
                now = time.perf_counter()
                if not self.closed:
                    self.look(now)
                if self.phase == "over" or (self.phase == "drain" and not self.waiting):
                    return None
                if self.closed:
                    count = min(most, len(self.waiting))
                    if count == 0:
                        self.lock.wait()
                else:
                    count = 0
                    while count < most and count < len(self.waiting) and self.waiting[count] <= now:
                        count += 1
                    if count == 0:
                        # At the border of the window too: the peer's accounts are read there.
                        border = self.warm_until if self.phase == "warm-up" else self.end
                        due = min(border, self.waiting[0]) if self.waiting else border
                        self.lock.wait(max(0, due - now))
                if count > 0:
                    break
            taken = []
            for _ in range(count):
                taken.append((self.waiting.popleft(), self.sent % len(self.bodies)))
                self.sent += 1
            self.running += count
            return taken

    def done(self, requests, rows):
        """Those that were taken together are answered by these rows of numbers."""
        with self.lock:
            now = time.perf_counter()
            self.running -= len(requests)
            self.answers += len(requests)
            for (start, index), row in zip(requests, rows):
                inside = self.phase == "window" if self.closed else self.warm_until <= start < self.end
                if (self.closed and inside) or (not self.closed and self.warm_until <= now < self.end):
                    self.answered += 1
                if inside:
                    self.latencies_us.append((now - start) * 1e6)
                    if len(self.latencies_us) >= self.next_sample:
                        self.next_sample = max(len(self.latencies_us) + 1, len(self.latencies_us) * 6 // 5)
                        values = numpy.ascontiguousarray(row, dtype=numpy.float32).tobytes()
                        self.samples.append({"index": index, "values": base64.b64encode(values).decode()})
            if self.closed:
                if self.phase in ("warm-up", "window"):
                    self.waiting.extend(now for _ in requests)
                self.turn(now)
            self.lock.notify_all()

    def turn(self, now):
        # From answers to answers: a slow model's whole batches are counted over the time that they took.
        if self.phase == "warm-up" and now >= self.warm_until and self.answers >= self.level["warmupRequests"]:
            self.began = now
            self.phase = "window"
            say(event="begin")
        elif self.phase == "window" and now - self.began >= self.level["seconds"]:
            self.seconds = now - self.began
            self.phase = "drain"
            say(event="measured")
            self.waiting.clear()

    def look(self, now):
        if self.phase == "warm-up" and now >= self.warm_until:
            self.phase = "window"
            say(event="begin")
        if self.phase == "window" and now >= self.end:
            self.phase = "drain"
            self.seconds = self.level["seconds"]
            say(event="measured")
        if now >= self.give_up:
            self.phase = "over"

    def report(self):
        now = time.perf_counter()
        left = [start for start in self.waiting if start >= self.warm_until]
        self.latencies_us.extend((now - start) * 1e6 for start in left)
        found = numpy.sort(numpy.array(self.latencies_us))

        def at(fraction):
            return float(found[max(0, math.ceil(fraction * len(found)) - 1)]) if len(found) else 0

        say(
            event="end", answered=self.answered, seconds=self.seconds, p50Us=at(0.5), p90Us=at(0.9), p99Us=at(0.99), maxUs=at(1),
            failed=0, unfinished=len(left), samples=self.samples,
        )


def hold(level, bodies, threads, most, answer):
    """Holds a load: so many threads, each of which takes up to `most` requests at once and answers them by rows."""
    load = Load(level, bodies)
    failure = []

    def work():
        try:
            while (requests := load.take(most)) is not None:
                load.done(requests, answer([bodies[index] for _, index in requests]))
        except BaseException as error:  # the other threads wait for its callers
            failure.append(error)
            with load.lock:
                load.phase = "over"
                load.lock.notify_all()

    workers = [threading.Thread(target=work) for _ in range(threads - 1)]
    for worker in workers:
        worker.start()
    work()
    for worker in workers:
        worker.join()
    if failure:
        raise failure[0]
    load.report()
