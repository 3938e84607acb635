import { fileURLToPath } from 'node:url'

const place = (path) => fileURLToPath(new URL(path, import.meta.url))

const build = (name, externals) => ({
  name,
  mode: 'development',
  devtool: false,
  target: 'node20',
  entry: place('./app.js'),
  experiments: { outputModule: true },
  output: { path: place('./out'), filename: `${name}.js`, module: true },
  externalsType: 'module',
  externals,
})

/** As documented, and by mistake. */
export default [build('external', ['zerohop', 'onnxruntime-node']), build('bundle', ['onnxruntime-node'])]
