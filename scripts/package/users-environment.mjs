import { delimiter, join } from 'node:path'
import { root } from '../native/toolchain.mjs'

/** What a user's environment has not: what npm sets for its scripts, as ours are, and what is said to zerohop or onnxruntime-node. */
const ours = /^(npm_|onnxruntime_node_|zerohop_|node_path$)/i
const ownPrograms = join(root, 'node_modules/.bin')

/** This process's environment as a user has it, who types a command: nothing of this checkout is found by it. */
export function usersEnvironment(environment = process.env) {
  const entries = Object.entries(environment).filter(([name]) => !ours.test(name))
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name.toUpperCase() === 'PATH' ? withoutOwnPrograms(value) : value]),
  )
}

function withoutOwnPrograms(path) {
  return path
    .split(delimiter)
    .filter((folder) => folder !== ownPrograms)
    .join(delimiter)
}
