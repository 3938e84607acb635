import { resolve } from 'node:path'
import { InvalidArgumentError } from 'commander'
import type { FoundPlugin } from './find-plugins.ts'

/** Reads `name=library`, and adds it to those before. */
export function addPlugin(value: string, before: readonly FoundPlugin[]): FoundPlugin[] {
  const [, name, library] = /^([a-z][a-z0-9_-]*)=(.+)$/.exec(value) ?? []
  if (name === undefined || library === undefined)
    throw new InvalidArgumentError('It has to be a name and a path, such as openvino=plugins/openvino.so.')
  return [...before, { name, library: resolve(library) }]
}
