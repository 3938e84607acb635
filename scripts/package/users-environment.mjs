import { delimiter, join } from 'node:path'
import { root } from '../native/toolchain.mjs'

/** What a user's environment has not: what npm sets for its scripts, as ours are, and what is said to zerohop or onnxruntime-node. */
const ours = /^(npm_|onnxruntime_node_|zerohop_|node_path$)/i

/** This process's environment as a user has it, who types a command: nothing of this checkout is found by it. */
export function usersEnvironment(environment = process.env) {
  const { PATH = '', ...others } = Object.fromEntries(Object.entries(environment).filter(([key]) => !ours.test(key)))
  return { ...others, PATH: PATH.split(delimiter).filter((folder) => folder !== join(root, 'node_modules/.bin')).join(delimiter) }
}
