import { z } from 'zod';

/** Pieces that the shapes of the answers share. */
export const id = () => z.string().meta({ format: 'uuid' });
export const time = () => z.string().meta({ format: 'date-time' });
export const integer = () => z.number().meta({ type: 'integer' });
/** Any JSON value. */
export const json = () => z.unknown();

export const isoTime = (ms: number) => new Date(ms).toISOString();
export const isoTimeOrNull = (ms: number | null) => (ms === null ? null : isoTime(ms));

/** A list as a bare array, or as one page of it with `includeTotal=true`. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.union([z.array(item), z.object({ items: z.array(item), total: integer(), skip: integer(), take: integer() })]);

interface Paging {
  readonly skip: number;
  readonly take: number;
  readonly includeTotal: boolean;
}

export function toList<Item>(items: Item[], total: number | undefined, { skip, take, includeTotal }: Paging) {
  return includeTotal ? { items, total: total ?? 0, skip, take } : items;
}
