import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findDrift } from '../../../src/features/drift/path-drift.ts';
import type { PathType, PathUse } from '../../../src/features/drift/paths.ts';

type PathRow = Parameters<typeof findDrift>[0][number];

/** Stored rows after a story of deliveries: each type with its count, `|` starts another hour, `>` the next day. */
function rowsOf(story: string, hoursApart = 1): PathRow[] {
  const rows = new Map<string, PathRow>();
  let n = 0;
  let hour = 1000;
  for (const word of story.split(' ')) {
    if (word === '|') hour += hoursApart;
    if (word === '>') hour += 24;
    const [, count = '', type = ''] = /^(\d+)(\w+)$/.exec(word) ?? [];
    for (let each = 0; each < Number(count); each += 1) {
      n += 1;
      const id = String(n).padStart(8, '0');
      const row = rows.get(`${hour} ${type}`) ?? { hour, type: type as PathType, count: 0, firstId: id, lastId: id };
      rows.set(`${hour} ${type}`, { ...row, count: row.count + 1, lastId: id });
    }
  }
  return [...rows.values()];
}
const driftOf = (story: string, use: PathUse = 'required', hoursApart?: number) => {
  const drift = findDrift(rowsOf(story, hoursApart), use);
  return (
    drift && `${drift.was} ${drift.now} from ${Number(drift.firstId)}, ${drift.before} before, ${drift.differing} now`
  );
};

describe('a path that deliveries had', () => {
  it.each<[rule: string, story: string, use: PathUse, drift: string | undefined]>([
    ['is missing from three in a row', '30string 3absent', 'required', 'string absent from 31, 30 before, 3 now'],
    ['is missing from two, which may be tests', '30string 2absent', 'required', undefined],
    ['was in too few to know', '19string 5absent', 'required', undefined],
    [
      'is missing in a later hour',
      '30string | 2absent | 2absent',
      'required',
      'string absent from 31, 30 before, 4 now',
    ],
    ['was missing before too', '30string 3absent | 30string | 3absent', 'required', undefined],
    [
      'was missing once in many',
      '200string 1absent | 200string | 4absent',
      'required',
      'string absent from 402, 400 before, 4 now',
    ],
    ['is there again in the same hour', '30string 5absent 1string', 'required', undefined],
    ['is there again in a later hour', '30string 5absent | 1string', 'required', undefined],
    [
      'is missing from most',
      '40string | 6absent 4string 6absent',
      'required',
      'string absent from 41, 40 before, 12 now',
    ],
    ['is missing from fewer than half', '40string | 3absent 4string 3absent 3string', 'required', undefined],
    ['is there again after most lacked it', '40string | 6absent 4string 6absent | 3string', 'required', undefined],
    ['is missing where only some runs read it', '30string 19absent | 1absent', 'conditional', undefined],
    [
      'is missing from many of which some would read it',
      '30string | 20absent > 1absent',
      'conditional',
      'string absent from 31, 30 before, 21 now',
    ],
    ['is missing where the flow asks for it', '30string 50absent', 'optional', undefined],
    [
      'has another type where the flow asks for it',
      '30string 3number',
      'optional',
      'string number from 31, 30 before, 3 now',
    ],
    ['has another type', '30string 3number', 'required', 'string number from 31, 30 before, 3 now'],
    ['is null a few times', '30string 18null > 1null', 'required', undefined],
    ['is null many times on one day', '30string 50null | 50null', 'required', undefined],
    ['is null many times', '30string 20null > 1null', 'required', 'string null from 31, 30 before, 21 now'],
    ['is null at times', '15string 1null 15string 1null | 30null', 'required', undefined],
    ['had several types', '15string 15number 30absent', 'required', undefined],
    ['never was there', '30absent 5string 5absent', 'required', undefined],
    ['began to be there', '30absent | 30string', 'required', undefined],
    ['has items that differ', '30string 3mixed', 'required', 'string mixed from 31, 30 before, 3 now'],
  ])('%s', (_, story, use, drift) => {
    expect(driftOf(story, use)).toBe(drift);
  });

  it('of a trigger with few deliveries, was there for a week', () => {
    const rare = '1string | 1string | 1string | 1string | 1string | 1absent | 1absent | 1absent';
    expect(driftOf(rare, 'required', 48)).toBe('string absent from 6, 5 before, 3 now');
    expect(driftOf(rare, 'required', 24)).toBeUndefined();
  });
});

const type = fc.constantFrom<PathType>('absent', 'null', 'string', 'number');
const use = fc.constantFrom<PathUse>('required', 'conditional', 'optional');
const story = fc
  .array(
    fc.oneof(
      fc.constantFrom('|', '>'),
      fc.tuple(fc.integer({ min: 1, max: 40 }), type).map((pair) => pair.join('')),
    ),
    { maxLength: 12 },
  )
  .map((words) => words.join(' '));

describe('whatever deliveries had', () => {
  it('is no drift while all have the same, and none once the newest hour is as usual again', () => {
    fc.assert(
      fc.property(story, use, (words, needed) => {
        const drift = findDrift(rowsOf(words), needed);
        if (drift === undefined) return;
        expect(findDrift(rowsOf(`${words} | 3${drift.was}`), needed)).toBeUndefined();
      }),
    );
    fc.assert(
      fc.property(type, fc.array(fc.integer({ min: 1, max: 99 })), use, (same, hours, needed) => {
        expect(findDrift(rowsOf(hours.map((count) => `${count}${same}`).join(' | ')), needed)).toBeUndefined();
      }),
    );
  });

  it('names the first delivery that differs and the last usual one, and never tells of what the flow asks for', () => {
    fc.assert(
      fc.property(story, use, (words, needed) => {
        const rows = rowsOf(words);
        const drift = findDrift(rows, needed);
        if (drift === undefined) return;
        expect(drift.now).not.toBe(drift.was);
        expect(needed === 'optional' && drift.now === 'absent').toBe(false);
        expect(rows.some((row) => row.type === drift.now && row.firstId === drift.firstId)).toBe(true);
        expect(drift.lastUsualId < drift.firstId).toBe(true);
        expect(drift.differing).toBeGreaterThanOrEqual(3);
        expect(drift.before).toBeGreaterThanOrEqual(5);
      }),
    );
  });

  it('does not depend on the order of the rows', () => {
    fc.assert(
      fc.property(story, use, (words, needed) => {
        const rows = rowsOf(words);
        expect(findDrift(rows.toReversed(), needed)).toEqual(findDrift(rows, needed));
      }),
    );
  });
});
