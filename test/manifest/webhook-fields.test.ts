import { expect, it } from 'vitest';
import { slugFields } from '../../src/manifest/fields/endpoint.ts';
import { fieldsOf } from '../../src/manifest/fields/row.ts';
import { WEBHOOK_ROWS, webhookInputsSchema } from '../../src/manifest/webhook-fields.ts';

const respondFields = { webhookRespond: WEBHOOK_ROWS.webhookRespond };

it('keeps groups of fields in the order in which they are listed', () => {
  expect(Object.keys(fieldsOf([respondFields, slugFields]))).toEqual(['webhookRespond', 'webhookSlug']);
});

it('puts a field before the one that it names', () => {
  const fields = { webhookHoldDeliveries: WEBHOOK_ROWS.webhookHoldDeliveries };
  expect(Object.keys(fieldsOf([slugFields, respondFields, fields]))).toEqual([
    'webhookSlug',
    'webhookHoldDeliveries',
    'webhookRespond',
  ]);
  expect(Object.keys(fieldsOf([fields, slugFields]))).toEqual(['webhookHoldDeliveries', 'webhookSlug']);
});

it('refuses a field that two groups have', () => {
  expect(() => fieldsOf([slugFields, respondFields, { ...slugFields }])).toThrow(
    'webhookSlug is a field of two groups',
  );
});

it('gives the schema exactly the fields that have a row', () => {
  expect(Object.keys(webhookInputsSchema.shape)).toEqual(Object.keys(WEBHOOK_ROWS));
});

it.each(Object.entries(WEBHOOK_ROWS))('replaces %s, where it does not fit, by a value that fits', (_, row) => {
  if (row.plain !== undefined) expect(row.schema.safeParse(row.plain).success).toBe(true);
});
