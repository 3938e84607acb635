import { addRecord, type PartialTrace, type Trace } from '../../src/trace-files/read-trace-file.ts'

/** Moments of a way, in microseconds from when it began, as Triton writes them: a record for each. */
function timestamps(id: number, atUs: Readonly<Record<string, number>>): object[] {
  return Object.entries(atUs).map(([name, us]) => ({
    id,
    timestamps: [{ name, ns: 2_356_425_054_587_444 + Math.round(us * 1000) }],
  }))
}

/** What Triton writes of a request over HTTP, and of an ensemble over gRPC with a model inside. */
export const tritonRecords: readonly object[] = [
  { id: 1, model_name: 'simple', model_version: 1, request_id: 'abc' },
  ...timestamps(1, {
    HTTP_RECV_START: 0, HTTP_RECV_END: 20.6, REQUEST_START: 30, QUEUE_START: 40, INFER_RESPONSE_COMPLETE: 375, COMPUTE_START: 58, COMPUTE_INPUT_END: 70.2,
    COMPUTE_OUTPUT_START: 360.2, COMPUTE_END: 370.2, REQUEST_END: 383.9, HTTP_SEND_START: 399.1, HTTP_SEND_END: 403.6,
  }),
  { id: 2, model_name: 'ensemble', model_version: -1 },
  { id: 3, model_name: 'inner', model_version: 1, parent_id: 2 },
  ...timestamps(2, { GRPC_WAITREAD_START: 0, GRPC_WAITREAD_END: 500, REQUEST_START: 520, REQUEST_END: 920, GRPC_SEND_START: 950, GRPC_SEND_END: 1000 }),
  ...timestamps(3, { REQUEST_START: 600, QUEUE_START: 610, COMPUTE_START: 640, COMPUTE_INPUT_END: 650, COMPUTE_OUTPUT_START: 685, COMPUTE_END: 690, REQUEST_END: 700 }),
  { id: 3, activity: 'TENSOR_QUEUE_INPUT', tensor: { name: 'input', data: '0.1,0.2,0.3,0.4', shape: '2,2', dtype: 'FP32' } },
  { id: 2, activity: 'TENSOR_QUEUE_INPUT', tensor: { name: 'raw', data: 'one,two', shape: '2', dtype: 'BYTES' } },
] // prettier-ignore

/** The same, read. */
export function tritonTraces(): Trace[] {
  const traces = new Map<number, PartialTrace>()
  for (const record of tritonRecords) addRecord(traces, JSON.stringify(record))
  return [...traces.values()] as Trace[]
}
