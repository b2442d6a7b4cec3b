import { z } from 'zod';
import { HttpError } from '../errors.ts';
import { integer } from './api/formats.ts';

/** Fastify's own shape plus the reason. */
export const errorSchema = z
  .object({ statusCode: integer(), error: z.string(), message: z.string(), reason: z.string().optional() })
  .meta({ id: 'Error' });

/** What any guarded route may answer: the input is wrong, no credentials, not from here, or the store is away. */
export const REFUSALS = { 400: errorSchema, 401: errorSchema, 403: errorSchema, 503: errorSchema };

/** A route that takes a body may find it too large. */
export const BODY_REFUSALS = { ...REFUSALS, 413: errorSchema };

export const unknownId = (kind: 'delivery' | 'flow' | 'run', id: string) =>
  new HttpError(404, `There is no ${kind} with the id ${id}`, `unknown_${kind}`);
