// A stand-in for ONNX Runtime. Its models are told by their names: the path that is opened, or the bytes.
//
// | name       | inputs and outputs                                  | a run                                                   |
// |------------|-----------------------------------------------------|---------------------------------------------------------|
// | plus-one   | x float32 [N, 4], y float32 [N, 4]                  | y is x + 1                                              |
// | identity   | the same                                            | y is x itself, and is not written where it was asked for |
// | larger     | the same                                            | y is [N + 1, 4]; with a place of another size it fails   |
// | other-type | the same                                            | y is int32                                              |
// | nothing    | the same                                            | gives no y                                              |
// | failing    | the same                                            | fails                                                   |
// | endless    | the same                                            | ends when it is told to stop, and fails                 |
// | in-pairs   | as plus-one                                         | as plus-one; the first of two ends when the second has begun |
// | no-sevens  | as plus-one                                         | as plus-one; fails where there is a 7                   |
// | slow-elsewhere | as plus-one                                     | as plus-one; computes for 20 ms on any thread but its first |
// | fails-on-many | as plus-one                                       | as plus-one, and has no memory for more than 2 threads  |
// | refuses-on-many | as plus-one                                     | as plus-one, and refuses its input on more than 2       |
// | few-threads | as plus-one, and is not opened with more than 2 threads |                                             |
// | never-open | opens until that is cancelled                       |                                                         |
// | until-stopped | as plus-one                                       | as plus-one, and fails when it is told to stop          |
// | reverse    | x string [N], y string [N]                          | y are x from the last to the first                      |
// | scores     | x float32 [N, 4], y seq(map(int64, float32))        | y has a map of each row, from the place to the value     |
// | names      | the same, y seq(map(string, float32))               | the same, with places a, b, c, d                        |
// | rows       | the same, y seq(float32)                            | y are the rows of x                                     |
// | maybe      | the same, y optional(float32)                       | y is x, or nothing where x begins below 0                |
// | sparse     | the same, y a sparse tensor                         | gives one                                               |
// | first      | x seq(float32), y float32 [N, 4]                    | y is the first of x                                     |
// | lookup     | x and y map(int64, float32)                         | y is x                                                  |
#pragma once

#include <atomic>
#include <string>

// What exists, and what has happened.
struct FakeOrtCounts {
  std::atomic<int> allocators{0}, sessions{0}, values{0}, statuses{0}, runOptions{0}, sessionOptions{0}, infos{0};
  std::atomic<int> opened{0}, opening{0}, runs{0}, running{0};
  std::atomic<int> threads{0};      // of the last run
  std::atomic<int> failAt{-1};      // the place of the entry that fails; -1 for none
  std::atomic<int> apiVersion{24};  // the newest that there is
  std::string set;                  // some of what was set, as text
};
