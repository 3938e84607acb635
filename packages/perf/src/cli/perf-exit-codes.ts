/** What `zerohop perf` exits with, as perf_analyzer does. */
export const perfExitCodes = {
  /** Windows did not agree. */
  unstable: 2,
  /** Answers under load differ from those alone (`--check-rows`). */
  differs: 1,
  usage: 3,
  /** Anything else. */
  wrong: 99,
} as const
