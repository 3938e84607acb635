import type { RawValueMetadata } from '../tensor/metadata.ts'
import type { MailedValue } from '../tensor/values.ts'

/** The native addon. Throws a TypeError for arguments of a wrong type, a RangeError for numbers that make no sense. */
export interface NativeBinding extends NativeJpeg, NativeKernels, NativeProviders, NativeRuns {
  /** Must equal {@link BINDING_VERSION}. */
  readonly version: string
  /** The size of slabs counts before the first `acquire` only; the limit may move, and counts while none is claimed. */
  configure(options: { slabBytes?: number; limitBytes?: number }): void
  /** Asks for a limit; of all that are claimed in the process the largest counts. Returns the number of the claim. */
  claimLimit(limitBytes: number): number
  /** Takes a claim back. Doing it twice is allowed. */
  dropLimit(claim: number): void
  /**
   * Memory that is page-locked for the CUDA device of that ordinal, or plain with {@link plainMemory}, and where
   * page-locked memory is not to be had, with the reason. Where the limit is reached: null, or with `pastLimit` plain
   * memory that the pool does not keep. Null, too, where the system has no more memory. Throws with code
   * `ERR_NO_EXTERNAL_BUFFERS` where the runtime refuses native memory.
   */
  acquire(byteLength: number, device: number, pastLimit?: boolean): NativeLease | null
  /** As `acquire` within the limit, off the calling thread: page-locking takes long. */
  acquireAsync(byteLength: number, device: number): Promise<NativeLease | null>
  /** Another buffer over some of the bytes of a lease, which holds the memory until it is released or collected; the lease is not held by it. */
  lend(leaseId: number, offset: number, byteLength: number): ArrayBuffer
  /** Takes the memory from the bytes of a lease, or from those that were lent, and drops its hold on it. Doing it twice is allowed. */
  release(bytes: ArrayBuffer): void
  /** Gives slabs that nothing holds back to the system; returns their bytes. Costly with a GPU at work. */
  trim(): number
  stats(): NativePoolStats
  /** Opens the CUDA driver at the first call; makes no context on the GPU. */
  cudaProbe(): CudaProbe
  /** `null` where memory cannot be handed over to other processes. */
  readonly processes?: NativeProcesses | null
}

/** The kind of native memory a lease got: page-locked by the CUDA driver, or pages of the operating system's. */
type NativeMemoryKind = 'pinned' | 'plain'

/** A piece of staging memory, held until it is released or the garbage collector has found its bytes. */
export interface NativeLease {
  /** By which run loops know it, of whichever isolate. */
  readonly id: number
  /** As many as asked for. They start on a cache line (64 bytes), from 64 KiB on at a page (4 KiB). */
  readonly bytes: ArrayBuffer
  readonly kind: NativeMemoryKind
  /** Whether it is memory of its own, beside what the pool keeps: it goes back to the system with its last holder. */
  readonly pastLimit: boolean
  /** Why it is not page-locked although that was asked for. */
  readonly reason?: string
}

/** Counters of the process's staging pool. */
export interface NativePoolStats {
  readonly slabs: number
  /** The limit in force: the largest claimed. */
  readonly limitBytes: number
  readonly reservedBytes: number
  /** The part of `reservedBytes` that is page-locked. */
  readonly pinnedBytes: number
  /** The part of `reservedBytes` that does not count towards the limit. */
  readonly pastLimitBytes: number
  /** Bytes of slots that a lease or a run loop still holds. */
  readonly usedBytes: number
  readonly highWaterBytes: number
  /** Leases not yet released. */
  readonly leases: number
  /** Times that the limit left no room. */
  readonly failures: number
}

/** What the CUDA driver says of itself, or why there is none. */
export interface CudaProbe {
  readonly available: boolean
  /** Why it is not available; empty otherwise. */
  readonly reason: string
  /** As the driver numbers CUDA: 13000 is 13.0. */
  readonly driverVersion: number
  readonly devices: readonly {
    readonly ordinal: number
    readonly name: string
    readonly totalBytes: number
  }[]
}

/** Instead of a device's ordinal: memory need not be page-locked. */
export const plainMemory = -1

/** An array that kernels work on: they look at its bytes. */
export type KernelArray = ArrayBufferView & { readonly length: number }

/** Loops over many bytes. Offsets, strides and lengths of rows are in bytes; each call checks that its rows lie in its arrays. */
interface NativeKernels {
  /**
   * Writes 8-bit RGB pixels, one after the other, into three planes.
   *
   * @param planes as many elements as `rgb` has: a `Float32Array`, or a `Uint16Array` of half-precision bits.
   * @param table of the type of `planes`: for each plane what each of the 256 values becomes. The planes are equal to it in every bit.
   * @param factors by which arithmetic gives the same, perhaps but for roundings: of each plane a factor, then of each a summand.
   * @param swapped whether the first plane is blue.
   */
  writePlanes(
    rgb: KernelArray,
    planes: KernelArray,
    table: KernelArray,
    factors: Float64Array,
    swapped: boolean,
  ): void
  /** Copies rows that lie a stride apart to where they lie another stride apart. */
  copyRows(
    source: KernelArray, sourceOffset: number, sourceStride: number,
    target: KernelArray, targetOffset: number, targetStride: number,
    rowBytes: number, rows: number,
  ): void // prettier-ignore
  /** Fills rows that lie a stride apart with one element, which `element` has. */
  fillRows(
    target: KernelArray,
    offset: number,
    stride: number,
    rowBytes: number,
    rows: number,
    element: KernelArray,
  ): void
  /** What kernels are done with on this processor. */
  readonly vectorInstructions: 'avx2' | 'neon' | 'none'
}

/** A JPEG as its header describes it. */
export interface JpegFrame {
  readonly width: number
  readonly height: number
  /** How many pixels become one in each direction while it is decoded: 1, 2, 4 or 8. What is over at the end counts nothing. */
  readonly shrink: number
}

/** One direction of a resize. Only the pixels of the result that are wanted are computed. */
export interface ResizeAxis {
  /** Pixels of what was decoded to one of the result, at least 1; 1 leaves them as they are, whatever the filter. */
  readonly shrink: number
  /** Where in what was decoded the middle of the first wanted pixel lies; that of its first pixel is 0. */
  readonly start: number
  /** How many are wanted. */
  readonly count: number
}

/** What is made of the pixels of a JPEG. */
export interface JpegResize {
  readonly columns: ResizeAxis
  readonly rows: ResizeAxis
  /** Its place in `resizeFilters`. */
  readonly filter: number
  /** Byte of the target at which the first row begins. */
  readonly offset: number
  /** Bytes from the beginning of a row to that of the next. */
  readonly stride: number
}

/** Decoding of JPEGs by a libjpeg-turbo that is found at run time. */
export interface NativeJpeg {
  /** Opens the library; the first that is opened in the process stays. Throws in the words of the system's loader. */
  openJpegDecoder(path: string): void
  /**
   * Decodes a JPEG and writes it, smaller, as 8-bit RGB pixels, on a thread of libuv's pool; both arrays must stay as they are until
   * that is done. False where the library as much as warns of the file, or its header is not as said.
   */
  decodeJpeg(bytes: KernelArray, target: KernelArray, frame: JpegFrame, resize: JpegResize): Promise<boolean>
}

/** What numbers do not say of something that a loop has done. */
export interface NativeCompletionDetails {
  /** ONNX Runtime's message when it failed. */
  readonly error: string | null
  /** Of a session that was opened: what it says of itself. */
  readonly inputs?: RawValueMetadata[]
  /** How many of its inputs a run needs; those after them are initializers that it may override. */
  readonly neededInputs?: number
  /** The same, or of a run: by output of the session, what does not lie in the slot. */
  readonly outputs: readonly (RawValueMetadata | MailedValue | null)[]
}

/** What loops have done, on its way to the isolate that made it. */
export interface NativeCompletionHub {
  /**
   * Writes loop, kind, slot or question, start, start and end of the run, and whether there are details, of as many as fit into the array
   * that it was made with; returns their count.
   */
  take(): number
  /** Of the next that was taken with details. */
  takeDetails(): NativeCompletionDetails
}

/** A thread that opens models and runs batches. What is asked of it is answered through its hub. */
export interface NativeRunLoop {
  readonly id: number
  /** Whether its thread is doing something. */
  readonly busy: boolean
  /** Starts its thread, which ends with the calling one; false when it was ended before. Throws when the system has no thread left. */
  start(niceIncrement: number): boolean
  open(
    questionId: number,
    sessionId: number,
    model: string | Uint8Array,
    bytesId: number,
    settings: readonly object[],
    shared: boolean,
  ): void
  /** `feeds` by input of the session, `outputs` the indices of those that are to be computed. */
  runSample(
    questionId: number,
    sessionId: number,
    feeds: readonly (MailedValue | null)[],
    outputs: readonly number[],
    keeps: boolean,
  ): void
  /** Releases a session and its slots. */
  close(questionId: number, sessionId: number): void
  defineSlot(slotId: number, sessionId: number, leaseId: number): void
  forgetSlot(slotId: number): void
  /** By input and output of the session: a place, `null` for what lies elsewhere, `undefined` for what is not given or not wanted. */
  defineLayout(
    slotId: number,
    layoutIndex: number,
    inputs: readonly unknown[],
    outputs: readonly unknown[],
  ): void
  /** @param onSecond see `Executor.submit`. */
  submit(
    slotId: number,
    layoutIndex: number,
    onSecond: boolean,
    apart?: readonly (MailedValue | null)[],
  ): void
  /** Runs a batch on the calling thread; its completion is in the hub then, which is not woken. False when it cannot. See `Executor.runHere`. */
  runHere(slotId: number, layoutIndex: number, onSecond: boolean, inHalves: boolean): boolean
  /** False when the thread has started it. */
  takeBack(slotId: number): boolean
  /** What was noted of a session, by whichever isolate; `''` for nothing. */
  note(sessionId: number, key: string): string
  setNote(sessionId: number, key: string, value: string): void
  /** Asks to have the mapped files of a session's model entered in the page table, as far as they are in memory. */
  enterPages(questionId: number, sessionId: number): void
  /** Asks to have the arena of a session give back what nothing uses. */
  shrinkArena(questionId: number, sessionId: number): void
  arena(sessionId: number): {
    readonly id: number
    readonly totalBytes: number
    readonly inUseBytes: number
    readonly mostInUseBytes: number
  } | null
  /** Stops a batch, which fails then; false when it is not here. */
  cancelBatch(slotId: number): boolean
  /** The same of what was asked. */
  cancelQuestion(questionId: number): boolean
  /** Begins nothing any more; true when the thread has ended, or never began. */
  end(): boolean
  /** As `end`, and what runs stops at its next operator. */
  stop(): boolean
  /** Lets go of memory and sessions, once the thread has ended; nothing may be asked of it any more. */
  dispose(): void
}

/** What the native addon runs models with. */
interface NativeRuns {
  /** Opens ONNX Runtime's library, once for the process, and returns its version; throws why it cannot. */
  openOnnxRuntime(path: string): string
  /** Begins to open it on another thread; {@link openOnnxRuntime} waits for that. */
  startOnnxRuntime(path: string): void
  /** Milliseconds of the clock by which loops tell the time. */
  nowMs(): number
  /** Milliseconds that the calling thread has computed. */
  threadCpuMs(): number
  /** The process is about to end: loops that were told to stop are waited for, here and as their threads end, for 100 ms at most. */
  noteExit(): void
  readonly CompletionHub: new (wake: () => void, into: Float64Array) => NativeCompletionHub
  readonly RunLoop: new (hub: NativeCompletionHub) => NativeRunLoop
}

/** A device that a provider plugin offers to compute on. */
export interface NativeProviderDevice {
  /** ONNX Runtime's name of the provider; a combination of devices has a name of its own after a dot. */
  readonly provider: string
  readonly providerVendor: string
  readonly kind: 'cpu' | 'gpu' | 'npu' | 'other'
  readonly hardwareVendor: string
  /** What the provider says of it. */
  readonly metadata: Readonly<Record<string, string>>
}

/** What the native addon knows of execution providers. */
interface NativeProviders {
  /** ONNX Runtime's names of the execution providers that are built in, once it is opened. */
  builtInProviders(): string[]
  /**
   * Registers a provider plugin with ONNX Runtime, once for the process, and gives its devices; `tries` runs a model on the first.
   * Rejects with ONNX Runtime's message, and with code `ERR_PLUGIN_TAKEN` for a name or a library that is registered with another.
   */
  registerProvider(name: string, library: string, tries: boolean): Promise<NativeProviderDevice[]>
}

/** Wakes the event loop of another process, and has this one's woken. */
export interface NativeBell {
  /** Has the peer's event loop woken; nothing where that is about to be, or the peer has gone. */
  ring(): void
  /** Whether it holds the process; at first it does not. */
  ref(): void
  unref(): void
  /** Lets go of the descriptor. May be called twice. */
  close(): void
}

/** What processes hand over to each other, on Linux. Errors of the system have a `code` of Node's. */
export interface NativeProcesses {
  /**
   * Watches a socket. `onRing` is called once for all rings that have come; it must not throw. With `onlyWatches` it is called while there is
   * something to be read, and the descriptor stays the caller's.
   */
  readonly Bell: new (descriptor: number, onRing: () => void, onlyWatches?: boolean) => NativeBell
  /** Memory of zeros that no process can make smaller; the descriptor is the caller's to hand over and to close. */
  createArea(byteLength: number): { readonly descriptor: number; readonly bytes: ArrayBuffer }
  /** Maps what a peer has handed over. Throws unless it is of that size for good. */
  openArea(descriptor: number, byteLength: number): ArrayBuffer
  /** Takes the memory from its buffer; with the last that maps it, it goes back to the system. */
  releaseArea(bytes: ArrayBuffer): void
  /** A connected Unix socket. */
  connect(path: string): number
  /** Two that are connected with each other. */
  socketPair(): [number, number]
  /** The process and the user at the other end of a Unix socket when it was connected. */
  peer(descriptor: number): { readonly process: number; readonly user: number }
  /** Sends all the bytes at once, and the descriptors with them. */
  send(descriptor: number, bytes: Uint8Array, descriptors?: readonly number[]): void
  /** What has come: 0 bytes at the end of the stream, -1 where nothing has yet. */
  receive(
    descriptor: number,
    into: Uint8Array,
  ): { readonly length: number; readonly descriptors: readonly number[] }
  close(descriptor: number): void
  /** What was connected, received or locked is closed with this thread, however that ends, unless it was handed over to code that closes it. */
  handOver(descriptor: number): void
  /** A descriptor that holds the lock of a file until it is closed or the process ends, however; `null` while another holder has it. */
  lock(path: string): number | null
}
