/** Whether a version, such as `1.26.0`, is this one or newer; one that cannot be read is not. */
export function isSince(version: string, [major, minor]: readonly [major: number, minor: number]): boolean {
  const [ownMajor = NaN, ownMinor = NaN] = version.split('.').map(Number)
  return ownMajor > major || (ownMajor === major && ownMinor >= minor)
}
