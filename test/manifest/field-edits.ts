import { type Effect, WEBHOOK_ROWS, type WebhookField, type WebhookInputs } from '../../src/manifest/webhook-fields.ts';

export const FIELDS = Object.keys(WEBHOOK_ROWS) as WebhookField[];

interface FieldEdit {
  readonly field: WebhookField;
  /** Further inputs of the trigger. */
  readonly with: WebhookInputs;
  /** Undefined if the trigger leaves the field out. */
  readonly from: unknown;
  readonly to: unknown;
  /** The effect, or the rule and the class of the finding. */
  readonly expected: string;
}

/** Every edit in the field's row, in both directions if the row has both. */
export function editsOf(field: WebhookField): readonly FieldEdit[] {
  const { with: rest = {}, ladders = [], other = [], same = [], oneWay = [] } = WEBHOOK_ROWS[field].change.edits;
  const steps = ladders.flatMap((ladder) => ladder.slice(1).map((to, index) => [ladder[index], to] as const));
  const both = (edits: readonly (readonly [unknown, unknown])[], forth: Effect, back: Effect) =>
    edits.flatMap(([from, to]) => [[from, to, forth] as const, [to, from, back] as const]);
  const edits = [
    ...both(steps, 'weaker', 'stronger'),
    ...both(other, 'other', 'other'),
    ...both(same, 'same', 'same'),
    ...oneWay,
  ];
  return edits.map(([from, to, expected]) => ({ field, with: rest, from, to, expected }));
}

/** A value as a trigger has it after its manifest is read. */
export const asRead = (field: WebhookField, written: unknown): unknown =>
  written === undefined ? undefined : WEBHOOK_ROWS[field].schema.parse(written);

/** A value of the field that asks for something. */
export function exampleOf(field: WebhookField): unknown {
  const values = editsOf(field).flatMap(({ from, to }) => [from, to]);
  return asRead(
    field,
    values.find((value) => value !== undefined && value !== false),
  );
}
