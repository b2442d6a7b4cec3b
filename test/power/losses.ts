import type { Chance } from '../chance.ts';
import { Bytes } from './bytes.ts';

/** An unflushed change of a file's contents. */
export type Unflushed =
  | { readonly kind: 'written'; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'cut'; readonly size: number };

/** What a power cut makes of a file: of its flushed bytes, and of the later changes in order. */
export type Loss = (flushed: Buffer, changes: readonly Unflushed[], chance: Chance) => Bytes;

const SECTOR = 512;
/** The page size of file systems, and the physical sector of most disks. */
const BLOCK = 4096;

/**
 * What disks and file systems may do to files at a power cut. All keep flushed data, and no byte changes that was not
 * being written: SQLite's "powersafe overwrite", which it presumes on every disk (sqlite.org/psow.html, read 2026-11).
 */
export const LOSSES = {
  'nothing that was not flushed is left': (flushed) => new Bytes(flushed),
  'all is left': (flushed, changes) => kept(flushed, changes),
  'all is left up to a write that is torn': (flushed, changes, chance) => {
    const last = chance.below(changes.length);
    const torn = changes[last];
    const left = changes.slice(0, last);
    if (torn?.kind === 'written') left.push(tear(torn, chance));
    return kept(flushed, left);
  },
  'some writes are left': (flushed, changes, chance) => {
    const part = chance.pick([0.05, 0.5, 0.95]);
    return kept(
      flushed,
      changes.filter(() => chance.next() < part),
    );
  },
  'each sector of 512 bytes is old, new or of a time between': (flushed, changes, chance) =>
    mixed(flushed, changes, { unit: SECTOR, chance }),
  'each block of 4 KiB is old, new or of a time between': (flushed, changes, chance) =>
    mixed(flushed, changes, { unit: BLOCK, chance }),
  'some writes are left, and some leave anything where they wrote': (flushed, changes, chance) =>
    kept(
      flushed,
      changes.flatMap((change) => {
        if (chance.once(2)) return change;
        return change.kind === 'written' && chance.once(2) ? garble(change, chance) : [];
      }),
    ),
} satisfies Record<string, Loss>;

function kept(flushed: Buffer, changes: readonly Unflushed[]): Bytes {
  const bytes = new Bytes(flushed);
  for (const change of changes) {
    if (change.kind === 'cut') bytes.cut(change.size);
    else bytes.write(change.at, change.bytes);
  }
  return bytes;
}

type Write = Extract<Unflushed, { kind: 'written' }>;

/** Keeps the start of a write, or its end, up to a boundary of sectors. */
function tear({ kind, at, bytes }: Write, chance: Chance): Write {
  const unit = chance.pick([SECTOR, BLOCK]);
  const units = unitsOf({ at, bytes }, unit);
  const boundary = Math.min(bytes.length, Math.max(0, chance.pick(units) * unit - at));
  if (chance.once(2)) return { kind, at, bytes: bytes.subarray(0, boundary) };
  return { kind, at: at + boundary, bytes: bytes.subarray(boundary) };
}

function garble({ kind, at, bytes }: Write, chance: Chance): Write {
  return { kind, at, bytes: anyBytes(bytes.length, chance) };
}

function anyBytes(length: number, chance: Chance): Buffer {
  // Disks return zeros or ones for writes that they cannot read.
  const fill = chance.pick([0, 0xff, undefined]);
  if (fill !== undefined) return Buffer.alloc(length, fill);
  return Buffer.from(Uint8Array.from({ length }, () => chance.below(256)));
}

function unitsOf({ at, bytes }: Pick<Write, 'at' | 'bytes'>, unit: number): number[] {
  const first = Math.floor(at / unit);
  const end = Math.max(first + 1, Math.ceil((at + bytes.length) / unit));
  return Array.from({ length: end - first }, (_, index) => first + index);
}

/**
 * Each unit of the file, and its size, is as flushed, or as one of the changes left it. This covers every order in
 * which writes can reach the disk.
 */
function mixed(
  flushed: Buffer,
  changes: readonly Unflushed[],
  { unit, chance }: { readonly unit: number; readonly chance: Chance },
): Bytes {
  const sizes = sizesOf(flushed.length, changes);
  const largest = Math.max(...sizes);
  const touches = changes.map((change) => {
    if (change.kind === 'written') return unitsOf(change, unit);
    const at = change.size;
    return at < largest ? unitsOf({ at, bytes: Buffer.alloc(largest - at) }, unit) : [];
  });
  const touched = new Map<number, number[]>();
  for (const [order, places] of touches.entries()) {
    for (const place of places) {
      const orders = touched.get(place);
      if (orders === undefined) touched.set(place, [order]);
      else orders.push(order);
    }
  }
  const lastOf = new Map([...touched].map(([place, orders]) => [place, chance.pick([-1, ...orders])]));
  const bytes = new Bytes(flushed);
  for (const [order, change] of changes.entries()) {
    for (const place of touches[order] ?? []) {
      if (order > (lastOf.get(place) ?? -1)) continue;
      const [from, to] = [place * unit, (place + 1) * unit];
      if (change.kind === 'written') {
        const part = change.bytes.subarray(Math.max(0, from - change.at), Math.max(0, to - change.at));
        bytes.write(Math.max(from, change.at), part);
      } else if (change.size < Math.min(to, bytes.size)) {
        bytes.view().fill(0, Math.max(from, change.size), Math.min(to, bytes.size));
      }
    }
  }
  bytes.cut(chance.pick(sizes));
  return bytes;
}

/** The sizes of the file since the flush. */
function sizesOf(flushed: number, changes: readonly Unflushed[]): readonly number[] {
  const sizes = [flushed];
  let size = flushed;
  for (const change of changes) {
    size = change.kind === 'cut' ? change.size : Math.max(size, change.at + change.bytes.length);
    if (size !== sizes.at(-1)) sizes.push(size);
  }
  return sizes;
}
