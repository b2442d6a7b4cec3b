/** The planned keys in their order, each followed by the keys of its loop's children, then keys that no plan names. */
export function inOrder(keys: readonly string[], planned: readonly string[]): string[] {
  const known = new Set(planned);
  const children = new Map<string, { readonly key: string; readonly segments: readonly string[] }[]>();
  for (const key of keys) {
    if (known.has(key)) continue;
    const segments = key.split('.');
    const parent = known.has(segments[0] ?? '') ? (segments[0] ?? '') : '';
    const others = children.get(parent);
    if (others === undefined) children.set(parent, [{ key, segments }]);
    else others.push({ key, segments });
  }
  const behind = (parent: string) =>
    (children.get(parent) ?? []).sort((a, b) => compareSegments(a.segments, b.segments)).map(({ key }) => key);
  return [...planned.flatMap((key) => [key, ...behind(key)]), ...behind('')];
}

/** Indices of iterations by their number. */
function compareSegments(a: readonly string[], b: readonly string[]): number {
  for (let at = 0; at < a.length && at < b.length; at += 1) {
    const [left, right] = [a[at] ?? '', b[at] ?? ''];
    if (left === right) continue;
    const difference = Number(left) - Number(right);
    if (!Number.isNaN(difference) && difference !== 0) return difference;
    return left < right ? -1 : 1;
  }
  return a.length - b.length;
}
