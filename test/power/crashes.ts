import type { Chance } from '../chance.ts';
import { Disk, type PowerCut } from './disk.ts';
import type { Entry } from './journal.ts';
import { LOSSES } from './losses.ts';
import type { Recording } from './recording.ts';

/** A moment at which the power fails. */
export interface Crash {
  /** The length of the journal. */
  readonly at: number;
  /** What was happening, to find it again. */
  readonly about: string;
  /** Writes the contents of the disk into a folder. */
  writeTo(folder: string): void;
}

interface CrashOptions {
  readonly count: number;
  readonly chance: Chance;
}

/** Power cuts of a recording, in order of time. */
export function* crashesOf(recording: Recording, { count, chance }: CrashOptions): Generator<Crash> {
  const disk = new Disk(recording.before);
  let applied = 0;
  for (const point of choosePoints(recording, count, chance)) {
    for (; applied <= point; applied += 1) {
      const entry = recording.entries[applied];
      if (entry !== undefined) disk.apply(entry);
    }
    const { end: at = 0, kind = '' } = recording.entries[point] ?? {};
    const drawn: string[] = [];
    const lossOf = () => {
      const name = chance.pick(Object.keys(LOSSES) as (keyof typeof LOSSES)[]);
      drawn.push(name);
      return LOSSES[name];
    };
    const cut = { lossOf, isNameLeft: nameLoss(chance), chance };
    yield {
      at,
      get about() {
        return `power cut after entry ${point} (${kind}): ${drawn.join('; ')}`;
      },
      writeTo: (folder) => disk.writeAfter(cut, folder),
    };
  }
}

/** Unflushed name changes are all kept, all lost, lost from some change on, or lost individually. */
function nameLoss(chance: Chance): PowerCut['isNameLeft'] {
  const how = chance.pick(['all', 'none', 'first', 'some'] as const);
  let isLeft = true;
  return () => {
    if (how === 'first') isLeft &&= !chance.once(3);
    return how === 'some' ? chance.once(2) : how === 'first' ? isLeft : how === 'all';
  };
}

/**
 * Half of them at any entry; the others where most is at stake: while the log is copied into the database, where a
 * flush, a name or a size changes, and right after an acknowledgement.
 */
function choosePoints({ before, entries, deliveries }: Recording, count: number, chance: Chance): readonly number[] {
  const all = [...entries.keys()];
  const copying = copyingOf({ before, entries });
  const rare = all.filter((at) => entries[at]?.kind !== 'written');
  const positions = new Set(deliveries.map(({ at }) => at));
  const acknowledged = all.filter((at) => positions.has(entries[at]?.end ?? 0));
  const kinds = [all, all, all, all, copying, copying, rare, acknowledged].filter(({ length }) => length > 0);
  return Array.from({ length: count }, () => chance.pick(chance.pick(kinds))).sort((a, b) => a - b);
}

/** Entries after which the database file has unflushed pages. */
function copyingOf({ before, entries }: Pick<Recording, 'before' | 'entries'>): readonly number[] {
  const disk = new Disk(before);
  return [...entries.keys()].filter((at) => {
    const entry: Entry | undefined = entries[at];
    if (entry !== undefined) disk.apply(entry);
    return disk.isDirty('.db');
  });
}
