import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import type { InferenceSession } from 'onnxruntime-common'
import { filePath } from '../../base/files.ts'
import { requireFromPackage } from '../../base/own-package.ts'

/** Of which file a session was opened, and how. */
export interface SessionOrigin {
  /** Absolute. */
  readonly path: string
  readonly options: InferenceSession.SessionOptions
}

interface SessionFactory {
  create(...given: unknown[]): Promise<InferenceSession>
}

const origins = new WeakMap<object, SessionOrigin>()

/** What is known of a session; `undefined` for one that was opened before {@link noteOrigins}, of bytes, or by another copy of onnxruntime-node. */
export function originOf(session: object): SessionOrigin | undefined {
  return origins.get(session)
}

/**
 * From now on it is noted of which file onnxruntime-node opens each session, as sessions do not tell. Nothing else about them changes, and neither
 * it nor its native part is loaded: sessions are made by the class of the onnxruntime-common that it requires.
 */
export function noteOrigins(): void {
  const factory = factoryOfNode()
  if (factory === null) return
  const { create } = factory
  factory.create = async (...given) => {
    const session = await create.apply(factory, given)
    const path = typeof given[0] === 'string' ? filePath(given[0]) : null
    if (path !== null) origins.set(session, { path: resolve(path), options: given[1] ?? {} })
    return session
  }
}

/** `null` where onnxruntime-node is not installed. */
function factoryOfNode(): SessionFactory | null {
  try {
    const node = requireFromPackage.resolve('onnxruntime-node')
    const common = createRequire(node)('onnxruntime-common') as { InferenceSession: SessionFactory }
    return common.InferenceSession
  } catch {
    return null
  }
}
