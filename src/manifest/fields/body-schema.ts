import { z } from 'zod';
import { type FieldVerdict, field } from './row.ts';
import { verdict } from './verdicts.ts';

export const bodySchemaFields = {
  webhookBodySchema: field({
    schema: z
      .union(
        [z.looseObject({}), z.string().regex(/^file:./i, { error: 'is not a JSON Schema, and not file:PATH of one' })],
        {
          error: 'is not a JSON Schema: an object, or file:PATH of one',
        },
      )
      .describe('JSON Schema (2020-12 or draft 07) of the body: the schema itself, or file:PATH.'),
    holds: 'file',
    decides: ['bodySchema'],
    readBy: 'every scheme',
    docs: 'bodySchema',
    change: {
      rule: bodySchema,
      edits: { ladders: [[{ type: 'object' }, undefined]], other: [[{ type: 'object' }, { type: 'array' }]] },
    },
    plain: {},
  }),
};

function bodySchema(before: unknown, after: unknown): FieldVerdict {
  if (after === undefined) return verdict('weaker', 'Bodies of any structure pass.');
  if (before === undefined) return verdict('stronger', 'Bodies that do not match the schema fail the gate.');
  return verdict('other', 'Bodies that matched the old schema may be refused, and others may pass.');
}
