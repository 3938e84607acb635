const packages = ['zerohop', 'onnxruntime-node', 'onnxruntime-common', 'piscina']

export default {
  serverExternalPackages: ['zerohop', 'onnxruntime-node'],
  // With the last line, what is copied into `.next/standalone` has what zerohop finds when it runs.
  output: process.env.STANDALONE ? 'standalone' : undefined,
  outputFileTracingIncludes: { '/digits': packages.map((name) => `./node_modules/${name}/**/*`) },
}
