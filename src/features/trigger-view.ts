import { coalesceTriggerView } from './coalesce/trigger-view.ts';
import { reconcileTriggerView } from './reconcile/trigger-view.ts';
import { signalsTriggerView } from './signals/trigger-view.ts';

/** What features say of webhooks where flows are shown. */
export const triggerViews = [coalesceTriggerView, reconcileTriggerView, signalsTriggerView] as const;
