import { resolve } from 'node:path'
import { InvalidArgumentError } from 'commander'

/** A provider plugin: the name that it is to have, and its library. */
export interface NamedPlugin {
  readonly name: string
  readonly library: string
}

/** Reads `name=library`, and adds it to those before. */
export function addPlugin(value: string, before: readonly NamedPlugin[]): NamedPlugin[] {
  const [, name, library] = /^([a-z][a-z0-9_-]*)=(.+)$/.exec(value) ?? []
  if (name === undefined || library === undefined)
    throw new InvalidArgumentError('It has to be a name and a path, such as openvino=plugins/openvino.so.')
  return [...before, { name, library: resolve(library) }]
}
