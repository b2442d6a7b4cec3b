import type { DeliveryRecord } from '../model/delivery.ts';
import type { BodySealer } from './sealed-body.ts';
import type { Store } from './store.ts';

/**
 * A store whose refused bodies are sealed at rest: what is below sees bytes, what is above sees bodies. A body of another
 * key, or one that was tampered with, is shown as none.
 */
export function withSealedBodies(store: Store, sealer: BodySealer | undefined): Store {
  const opened = (record: DeliveryRecord): DeliveryRecord => {
    if (record.bodyKey === undefined || record.body === null) return record;
    const about = { deliveryId: record.id, bodyBytes: record.bodyBytes };
    const body = sealer?.keyId === record.bodyKey ? sealer.open(record.body, about) : undefined;
    return body === undefined
      ? { ...record, body: null }
      : { ...record, body: new Uint8Array(body), bodyKey: undefined };
  };
  return {
    ...store,
    recordDelivery(record) {
      if (sealer === undefined || record.body === null) return store.recordDelivery(record);
      return store.recordDelivery({ ...record, body: sealer.seal(record.body, record.id), bodyKey: sealer.keyId });
    },
    async listDeliveries(query) {
      const page = await store.listDeliveries(query);
      return { ...page, items: page.items.map(opened) };
    },
    async findDelivery(id) {
      const record = await store.findDelivery(id);
      return record && opened(record);
    },
  };
}
