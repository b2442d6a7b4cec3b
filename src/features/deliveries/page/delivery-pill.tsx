import type { Api } from '../../../dashboard/web/api-types.ts';
import { Pill } from '../../../dashboard/web/kit/pill.tsx';
import { deliveryLook, words } from './words.ts';

export function DeliveryPill({ delivery }: { delivery: Parameters<typeof deliveryLook>[0] }) {
  const { text, ...look } = deliveryLook(delivery);
  return <Pill {...look}>{text}</Pill>;
}

export function ReasonText({ reason }: { reason: Api['Delivery']['reason'] }) {
  if (reason === null) return <span class="muted">–</span>;
  return (
    <span class="reason-text" title={`${words.reasonMeaning(reason)}\n${reason}`}>
      {words.reason(reason)}
    </span>
  );
}
