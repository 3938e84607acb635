/** What a candidate showed while it was measured once. */
export interface Measurement {
  /** Rows answered a second. */
  readonly rowsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Most memory that the process had, in loading too: the model's weights, arenas and staging memory, Node.js and its libraries. */
  readonly memoryBytes: number
  readonly meanBatchRows: number
  /** Requests that were not answered. */
  readonly failures: number
}
