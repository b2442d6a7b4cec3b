/** An owner's share of something limited. */
interface Share {
  readonly owner: string;
  readonly size: number;
}

/** The owner with the largest total, request included; undefined if no other owner has more than the asking one. */
export function greediestBut(asked: Share, shares: readonly Share[]): string | undefined {
  const taken = new Map([[asked.owner, asked.size]]);
  for (const { owner, size } of shares) taken.set(owner, (taken.get(owner) ?? 0) + size);
  const [most] = [...taken].reduce((one, other) => (other[1] > one[1] ? other : one));
  return most === asked.owner ? undefined : most;
}
