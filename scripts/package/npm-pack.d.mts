export function npmPack(
  folder: string,
  ...options: string[]
): { readonly filename: string; readonly files: readonly { readonly path: string }[] }
