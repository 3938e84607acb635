/** A device that a provider plugin offers to compute on. */
export interface NativeProviderDevice {
  /** ONNX Runtime's name of the provider; a combination of devices has a name of its own after a dot. */
  readonly provider: string
  readonly providerVendor: string
  readonly kind: 'cpu' | 'gpu' | 'npu' | 'other'
  readonly hardwareVendor: string
  /** What the provider says of it. */
  readonly metadata: Readonly<Record<string, string>>
}

/** What the native addon knows of execution providers. */
export interface NativeProviders {
  /** ONNX Runtime's names of the execution providers that are built in, once it is opened. */
  builtInProviders(): string[]
  /**
   * Registers a provider plugin with ONNX Runtime, once for the process, and gives its devices; `tries` runs a model on the first.
   * Rejects with ONNX Runtime's message, and with code `ERR_PLUGIN_TAKEN` for a name or a library that is registered with another.
   */
  registerProvider(name: string, library: string, tries: boolean): Promise<NativeProviderDevice[]>
}
