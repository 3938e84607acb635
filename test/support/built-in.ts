import { syncBuiltinESMExports } from 'node:module'

/**
 * Replaces a function of a built-in module, given as its default export, for everyone who has imported it. Call what is
 * returned to undo that.
 */
export function replaceBuiltIn<Module extends object, Name extends keyof Module>(
  module: Module,
  name: Name,
  replacement: (original: Module[Name]) => Module[Name],
): () => void {
  const original = module[name]
  module[name] = replacement(original)
  syncBuiltinESMExports()
  return () => {
    module[name] = original
    syncBuiltinESMExports()
  }
}
