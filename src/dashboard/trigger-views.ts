import type { z } from 'zod';
import { triggerViews } from '../features/trigger-view.ts';
import type { Merged } from '../manifest/fields/row.ts';
import type { PreparedTrigger } from '../webhooks/triggers.ts';
import type { TriggerView } from './services.ts';

type FieldsOf<Views> = {
  readonly [At in keyof Views]: Views[At] extends { readonly fields: infer Fields } ? Fields : never;
};
type Viewed<Views> = {
  readonly [At in keyof Views]: Views[At] extends { of(trigger: PreparedTrigger): infer View } ? View : never;
};

const views: readonly TriggerView<Readonly<Record<string, z.ZodType>>>[] = triggerViews;

/** Fields that features add to a webhook in views of flows. */
export const viewedFields: Merged<FieldsOf<typeof triggerViews>> & object = Object.assign(
  {},
  ...views.map(({ fields }) => fields),
);

export function viewOf(trigger: PreparedTrigger): Merged<Viewed<typeof triggerViews>> & object {
  return Object.assign({}, ...views.map((view) => view.of(trigger)));
}
