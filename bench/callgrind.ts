import { readFileSync } from 'node:fs'

/** Instructions by what they are spent on. */
export type Instructions = Readonly<Record<string, number>>

/** What the objects of a process are, in words; code that was compiled at run time is in none. */
function partOf(object: string): string {
  if (object.includes('libonnxruntime')) return 'ONNX Runtime'
  if (object.includes('onnxruntime_binding')) return "onnxruntime-node's binding"
  if (object.endsWith('zerohop.node')) return 'addon'
  if (object === '???' || object === '') return 'compiled JavaScript'
  if (object.endsWith('/node')) return 'Node and V8'
  return 'C library'
}

/** Sums up what callgrind wrote of one thread: the cost of each function itself, by the object that it is in. */
export function instructionsOf(file: string): Instructions {
  const names = new Map<string, string>()
  const sums: Record<string, number> = {}
  let part = partOf('')
  let isCall = false
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const object = /^ob=(\(\d+\))(?: (.*))?$/.exec(line) ?? /^cob=(\(\d+\))(?: (.*))?$/.exec(line)
    if (object !== null) {
      const [, id, name] = object as unknown as [string, string, string | undefined]
      if (name !== undefined) names.set(id, name)
      if (line.startsWith('ob=')) part = partOf(names.get(id) ?? '')
    } else if (line.startsWith('calls=')) isCall = true
    else if (/^[+\-*\d]/.test(line)) {
      // The line after a call says what was spent in the function that was called: that is counted there.
      if (!isCall) sums[part] = (sums[part] ?? 0) + Number(line.split(' ')[1] ?? 0)
      isCall = false
    }
  }
  return sums
}
