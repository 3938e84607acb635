/** This process's environment without what npm sets for its scripts, as ours are: a command that a user types has none of it. */
export function usersEnvironment() {
  return Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^(npm_|onnxruntime_node_)/i.test(key)))
}
