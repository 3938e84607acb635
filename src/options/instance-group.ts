/** Where instances of a model run: the name of a provider plugin (`EngineOptions.providers`) is a kind, too. */
export type InstanceKind = 'auto' | 'cpu' | 'cuda' | 'webgpu' | (string & {})

/** A group of like instances; Triton's `instance_group`. */
export interface InstanceGroup {
  /**
   * Default `'auto'`: CUDA where driver and provider are found, else the CPU. `'cuda'` and `'webgpu'` mean just that: where they cannot
   * be had the load fails. The kind of a plugin falls back to the CPU, with a warning.
   */
  kind?: InstanceKind
  /** Instances (per GPU for `cuda`) that a load opens; `model.scale()` changes them. Default `minInstances`, else 1. */
  count?: number
  /** Instead of `count` where `'auto'` has turned out to be the CPU; of a group that scales by itself within its limits. Default: `count`. */
  cpuCount?: number
  /** Fewest instances (per GPU for `cuda`) that it scales down to by itself. Default `count`. */
  minInstances?: number
  /**
   * Most instances (per GPU for `cuda`) that it scales up to by itself. Instances beyond the workers there are (`cpuWorkers`)
   * share them. Default `count`: with neither this nor `minInstances` it does not scale by itself.
   */
  maxInstances?: number
  /**
   * One instance is added when requests go on waiting for more than so many milliseconds although none is idle: for three times
   * as long, and without being worked off. Several times what a run takes. Default 100.
   */
  scaleUpAfterMs?: number
  /**
   * One instance is taken out when for so many milliseconds one had nothing to do, or all had so little that those left would
   * have been busy for less than half of the time. Twice as long, and again, up to 16 times, each time that it was soon missed.
   * Default 10 000.
   */
  scaleDownAfterMs?: number
  /** CUDA device ordinals, or all there are; for `cuda`, and for `auto`, which is the CPU where one of them is missing. Default `[0]`. */
  gpus?: readonly number[] | 'all'
}
