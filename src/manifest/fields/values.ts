import { z } from 'zod';
import { HEADER_NAME } from '../../model/delivery.ts';
import { GUID, notAFlowId } from '../../model/manifest.ts';

/** A closed list whose values are read in any case. */
export function anyCase<const Values extends readonly string[]>(
  values: Values,
  error?: (input: unknown) => string | undefined,
) {
  const canonical = (given: unknown) =>
    typeof given === 'string' ? (values.find((value) => value.toLowerCase() === given.toLowerCase()) ?? given) : given;
  return z.preprocess(canonical, z.enum(values, { error: (issue) => error?.(issue.input) }));
}

export const text = z.string().min(1);
export const header = text.regex(HEADER_NAME, { error: 'is not a header name' });

/** The id of another flow: lower-case, whatever case it is written in. */
export const flowId = z
  .string()
  .regex(GUID, { error: notAFlowId })
  .transform((text) => text.toLowerCase());

export function isHttpUrl(given: string): boolean {
  return /^https?:\/\//i.test(given) && URL.canParse(given);
}
