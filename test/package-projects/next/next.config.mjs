export default { serverExternalPackages: ['zerohop', 'onnxruntime-node'] }
