import type { NativeProcesses } from '../../native/native-binding.ts'
import {
  frameKinds,
  FrameReader,
  type Hello,
  messageText,
  readMessage,
  textFrame,
  type Welcome,
} from './messages.ts'
import { BadRecord } from './records.ts'
import { errorFrom, readText } from './tagged-json.ts'
import type { Descriptors } from './shared-rings.ts'

/** A serving process that has replied. */
export interface Greeted {
  /** Descriptor of the socket. */
  readonly descriptor: number
  readonly welcome: Welcome
  /** Descriptors that the serving process passed, if any. */
  readonly handedOver: Descriptors | null
}

const welcomeFields = {
  protocol: 'number',
  version: 'string',
  process: 'number',
  ringBytes: 'number',
  maxRequests: 'number',
  maxBytes: 'number',
} as const
const greetingBytes = 65_536

/** Reads the first message of a serving process. Throws its reason if it refuses. */
export function readWelcome(kind: number, body: Buffer): Welcome {
  if (kind === frameKinds.welcome) return readMessage<Welcome>(body, welcomeFields)
  if (kind !== frameKinds.refusal) throw new BadRecord('data other than its greeting')
  throw errorFrom(readText(body.toString()))
}

/**
 * Connects with the addon's own socket, because Node's would drop passed descriptors. Throws the system's
 * error, or the reason of a refusal.
 */
export async function greetNatively(
  processes: NativeProcesses,
  address: string,
  hello: Hello,
  timeoutMs: number,
): Promise<Greeted> {
  const descriptor = processes.connect(address)
  const descriptors: number[] = []
  try {
    if (processes.peer(descriptor).user !== process.getuid!())
      throw new Error('a process of another user serves there')
    processes.send(descriptor, textFrame(frameKinds.hello, messageText(hello)))
    const welcome = await receiveWelcome(processes, descriptor, descriptors, timeoutMs)
    const [area, bell] = descriptors
    const expected = welcome.ringBytes > 0 ? 2 : 0
    // The server already uses the rings, and would answer into rings that this side does not have.
    if (descriptors.length !== expected)
      throw Object.assign(
        new Error(
          `${descriptors.length} of ${expected} descriptors came; this process has too many open files`,
        ),
        { code: 'EMFILE' },
      )
    return { descriptor, welcome, handedOver: expected === 0 ? null : { area: area!, bell: bell! } }
  } catch (error) {
    for (const each of [descriptor, ...descriptors]) processes.close(each)
    throw error
  }
}

async function receiveWelcome(
  processes: NativeProcesses,
  descriptor: number,
  descriptors: number[],
  timeoutMs: number,
): Promise<Welcome> {
  const room = Buffer.alloc(greetingBytes)
  let welcome: Welcome | undefined
  const frames = new FrameReader(greetingBytes, (kind, body) => {
    if (welcome !== undefined) throw new BadRecord('data before it was asked')
    welcome = readWelcome(kind, body)
  })
  const endMs = performance.now() + timeoutMs
  while (welcome === undefined) {
    const received = processes.receive(descriptor, room)
    descriptors.push(...received.descriptors)
    if (received.length === 0)
      throw Object.assign(new Error('the connection was closed'), { code: 'ECONNREFUSED' })
    if (received.length > 0) frames.push(room.subarray(0, received.length))
    else await readable(processes, descriptor, endMs - performance.now(), notAnswering(timeoutMs))
  }
  return welcome
}

function readable(
  processes: NativeProcesses,
  descriptor: number,
  timeoutMs: number,
  late: Error,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer)
      bell.close()
      settle()
    }
    const bell = new processes.Bell(descriptor, () => end(resolve), true)
    bell.ref()
    const timer = setTimeout(() => end(() => reject(late)), Math.max(0, timeoutMs))
  })
}

/** The error for a serving process that takes too long to reply. */
export function notAnswering(timeoutMs: number): Error {
  return new Error(
    `it did not answer within ${Math.round(timeoutMs)} ms; it may be suspended or busy: raise timeoutMs to wait longer`,
  )
}
