import { coalesceTriggerView } from './coalesce/trigger-view.ts';
import { reconcileTriggerView } from './reconcile/trigger-view.ts';
import { signalsTriggerView } from './signals/trigger-view.ts';

/** Facts that features add to webhooks where flows are shown. */
export const triggerViews = [coalesceTriggerView, reconcileTriggerView, signalsTriggerView] as const;
