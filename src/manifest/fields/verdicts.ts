import type { Effect, FieldDefaults, FieldEdits, FieldVerdict, Row } from './row.ts';

export const verdict = (effect: Effect, consequence: string): FieldVerdict => ({ effect, consequence });

/** Compares two amounts of accepted deliveries. */
export function effectOf(before: number, after: number): 'weaker' | 'stronger' | 'same' {
  if (after === before) return 'same';
  return after > before ? 'weaker' : 'stronger';
}

/** Normal form for comparing headers, addresses and presets. */
export const normal = (entry: string) => entry.trim().toLowerCase();

type Change<Value> = Row<Value, Value, unknown>['change'];

/** A field that only changes an answer. */
export const answerOnly = <Value>(...same: NonNullable<FieldEdits<Value>['same']>) => ({
  rule: () => verdict('same', 'Only the answer changes, not who gets in.'),
  edits: { same },
});

export const readOtherwise = verdict(
  'other',
  'Signatures are read differently: deliveries that passed may be refused, and others may pass.',
);

/** A field that changes how signatures are read. */
export const readAnew = <Value>(one: Value, another: Value) => ({
  rule: () => readOtherwise,
  edits: otherwise(one, another),
});

/** Two values that accept different deliveries from each other, and from the field left out. */
export const otherwise = <Value>(one: Value, another: Value): FieldEdits<Value | undefined> => ({
  other: [
    [undefined, one],
    [one, another],
  ],
});

/** A field that requires something of the signed content. */
export const demand = (any: string, one: string, another: string): Change<string> => ({
  rule: (before, after) => {
    if (after === undefined) return verdict('weaker', `Deliveries ${any} pass.`);
    if (before === undefined)
      return verdict('stronger', 'Deliveries without it, or with another value, fail the gate.');
    return verdict('other', 'Deliveries with the old value fail the gate; those with the new one pass.');
  },
  edits: { ladders: [[one, undefined]], other: [[one, another]] },
});

interface Flag {
  /** How `true` changes access. */
  readonly whenTrue: 'weaker' | 'stronger';
  readonly on: string;
  readonly off: string;
  /** The value if the trigger leaves out the field; `false` by default. */
  readonly ofService?: (service: FieldDefaults) => boolean | undefined;
  readonly with?: FieldEdits<boolean>['with'];
}

export const flag = ({ whenTrue, on, off, ofService = () => false, with: rest = {} }: Flag): Change<boolean> => ({
  rule: (before, after, { service }) => {
    const byDefault = ofService(service) ?? false;
    const [one, other] = [before ?? byDefault, after ?? byDefault];
    if (one === other) return verdict('same', `${byDefault} is the default.`);
    if (other) return verdict(whenTrue, on);
    return verdict(whenTrue === 'weaker' ? 'stronger' : 'weaker', off);
  },
  edits: {
    with: rest,
    ladders:
      whenTrue === 'weaker'
        ? [
            [false, true],
            [undefined, true],
          ]
        : [
            [true, false],
            [true, undefined],
          ],
    same: [[undefined, false]],
  },
});
