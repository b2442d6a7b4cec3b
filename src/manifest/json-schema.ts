import { z } from 'zod';
import { manifestSchema } from './schema.ts';

/** The manifest's form as JSON Schema (draft 2020-12), in canonical spelling, for the completion of editors. */
export function manifestJsonSchema(): object {
  const schema = z.toJSONSchema(manifestSchema, { target: 'draft-2020-12', io: 'input' });
  return { title: 'Sluice manifest', ...schema };
}
