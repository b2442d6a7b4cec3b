import type { FastifyRequest } from 'fastify';
import type { Delivery, DeliveryRecord } from '../model/delivery.ts';
import { type DeliveryReading, toDelivery } from '../webhooks/read-delivery.ts';
import { judgeReadiness, type Readiness } from './readiness.ts';
import { type Redelivery, type RedeliveryOptions, redeliver } from './redeliver.ts';
import { type DeliveryReview, type DryRun, dryRun, type ReviewServices, reviewDelivery } from './review.ts';

/** What a person can ask about deliveries, and do with refused ones. */
export interface Reviewer {
  review(record: DeliveryRecord): Promise<DeliveryReview>;
  /** The request as the delivery that it would be at the receive endpoint. */
  read(request: FastifyRequest, idOrSlug: string): Delivery;
  /** What would become of a delivery that came now. */
  dryRun(delivery: Delivery, idOrSlug: string): Promise<DryRun | undefined>;
  redeliver(record: DeliveryRecord, options: RedeliveryOptions): Promise<Redelivery>;
  /** What Enforce would have done since, trigger by trigger. */
  readiness(query: { readonly since: number; readonly flowId: string | undefined }): Promise<Readiness[]>;
}

export function createReviewer(services: ReviewServices & DeliveryReading): Reviewer {
  return {
    review: (record) => reviewDelivery(record, services),
    read: (request, idOrSlug) => {
      const query = /\?.*$/.exec(request.raw.url ?? '')?.[0] ?? '';
      return toDelivery(request, services, `/flows/api/webhook/${encodeURIComponent(idOrSlug)}${query}`);
    },
    dryRun: (delivery, idOrSlug) => dryRun(delivery, idOrSlug, services),
    redeliver: (record, options) => redeliver(record, options, services),
    async readiness({ since, flowId }) {
      const groups = await services.store.summariseDeliveries({ since, flowId });
      const triggers = services
        .triggers()
        .list()
        .filter(({ trigger }) => flowId === undefined || trigger.flowId === flowId);
      return triggers.map((trigger) => judgeReadiness(trigger, groups));
    },
  };
}
