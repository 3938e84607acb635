import { createHash, randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ModelFiles } from './builder.ts'

/** Makes the bytes of a model, with the files that belong beside it if there are any. */
export type ModelRecipe = () => Uint8Array | ModelFiles

const sources = fileURLToPath(new URL('.', import.meta.url))
const cache = join(sources, '../../.cache/models')
const folder = join(cache, recipesHash())
const dayMs = 24 * 60 * 60 * 1000

/**
 * The absolute path of a generated model, which is written on first use. Files live in a folder named after a hash of
 * all the generator's sources: a changed recipe gets a new folder, and models of older sources are never overwritten
 * under a process that still reads them. `name` has to tell recipes with different parameters apart.
 */
export function modelPath(name: string, recipe: ModelRecipe): string {
  const path = join(folder, `${name}.onnx`)
  if (existsSync(path)) return path
  if (!existsSync(folder)) dropOldFolders()
  if (!isOurTurn(path)) return path
  const built = made(recipe, path)
  const { model, files } = built instanceof Uint8Array ? { model: built, files: [] } : built
  // The model comes last: whoever sees it finds the files it refers to.
  for (const [file, bytes] of files) writeAtomically(join(folder, file), bytes)
  writeAtomically(path, model)
  return path
}

/** What a recipe makes; one that fails leaves its turn to the next. */
function made(recipe: ModelRecipe, path: string): Uint8Array | ModelFiles {
  try {
    return recipe()
  } catch (error) {
    rmSync(turnOf(path))
    throw error
  }
}

const turnOf = (path: string): string => `${path}.turn`

/**
 * Whether this process is to write the model; else another has written it meanwhile. It is written once: a file that takes the
 * place of another, even with the same bytes, is another one to those that are opening it.
 */
function isOurTurn(path: string): boolean {
  mkdirSync(dirname(path), { recursive: true })
  try {
    writeFileSync(turnOf(path), '', { flag: 'wx' })
    return true
  } catch {
    const limitMs = performance.now() + 20_000 // it may have been killed over it
    while (!existsSync(path) && performance.now() < limitMs)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
    return !existsSync(path)
  }
}

// Whole, or not there.
function writeAtomically(path: string, bytes: Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true })
  const unfinished = `${path}.${randomUUID()}.tmp`
  writeFileSync(unfinished, bytes)
  renameSync(unfinished, path)
}

// Large networks make a folder some 350 MB; one that was written to today may still be in use elsewhere.
function dropOldFolders(): void {
  mkdirSync(cache, { recursive: true })
  for (const name of readdirSync(cache)) {
    const path = join(cache, name)
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    if (age > dayMs) rmSync(path, { recursive: true, force: true })
  }
}

function recipesHash(): string {
  const hash = createHash('sha256')
  for (const file of readdirSync(sources).sort()) {
    if (/\.(ts|proto)$/.test(file)) hash.update(file).update(readFileSync(join(sources, file)))
  }
  return hash.digest('hex').slice(0, 12)
}
