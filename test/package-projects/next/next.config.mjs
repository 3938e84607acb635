import { fileURLToPath } from 'node:url'

const packages = ['zerohop', 'onnxruntime-node', 'onnxruntime-common', 'piscina']

export default {
  serverExternalPackages: ['zerohop', 'onnxruntime-node'],
  output: process.env.STANDALONE ? 'standalone' : undefined,
  // What is copied into `.next/standalone` has so what zerohop finds when it runs.
  outputFileTracingIncludes: { '/digits': packages.map((name) => `./node_modules/${name}/**/*`) },
  // This project has a package-lock.json, and so has the folder above it.
  outputFileTracingRoot: fileURLToPath(new URL('.', import.meta.url)),
}
