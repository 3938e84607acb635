import { InferenceError } from '../errors.ts'
import { isMusl, isSince, otherRuntime } from '../base/platform.ts'

const oldestNode = [20, 19] as const

/** What a process tells of where it runs. */
export interface PlatformFacts {
  readonly versions: Readonly<Record<string, string | undefined>>
  /** Whether it is linked with the C library musl, as on Alpine. */
  readonly musl: boolean
}

/** Why there can be no engine in this process, and what to do; `null` where there can be one. */
export function platformError(facts: PlatformFacts): InferenceError | null {
  const runtime = otherRuntime(facts.versions)
  if (runtime !== null) {
    return refusal(
      'Node.js itself',
      runtime,
      'Start the engine in a process of Node.js, served by `serve()` of zerohop/processes, and ask it from here by `connect()`',
    )
  }
  if (!isSince(facts.versions['node']!, oldestNode))
    return refusal(
      'Node.js 20.19 or newer',
      `Node.js ${facts.versions['node']}`,
      'Install a newer version of Node.js',
    )
  if (facts.musl) {
    return refusal(
      'Linux with glibc',
      'Node.js for musl (as on Alpine)',
      'onnxruntime-node has no binaries for musl: use an image such as node:22-slim instead of node:22-alpine',
    )
  }
  return null
}

function refusal(expected: string, received: string, next: string): InferenceError {
  return new InferenceError(
    'ERR_PLATFORM',
    `zerohop cannot run models here: expected ${expected}, received ${received}. ${next}.`,
    { expected, received },
  )
}

let facts: PlatformFacts | undefined

/** @throws InferenceError `ERR_PLATFORM` where there can be no engine. */
export function checkPlatform(): void {
  facts ??= { versions: process.versions, musl: isMusl() }
  const error = platformError(facts)
  if (error !== null) throw error
}
