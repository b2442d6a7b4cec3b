import type { z } from 'zod';
import { triggerViews } from '../features/trigger-view.ts';
import type { PreparedTrigger } from '../webhooks/triggers.ts';
import type { TriggerView } from './services.ts';

type Views = (typeof triggerViews)[number];
type Intersected<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All & object
  : never;

const views: readonly TriggerView<Readonly<Record<string, z.ZodType>>>[] = triggerViews;

/** Fields that features add to a webhook where flows are shown. */
export const viewedFields: Intersected<Views['fields']> = Object.assign({}, ...views.map(({ fields }) => fields));

export function viewOf(trigger: PreparedTrigger): Intersected<ReturnType<Views['of']>> {
  return Object.assign({}, ...views.map((view) => view.of(trigger)));
}
