/* SPDX-License-Identifier: Apache-2.0 */
/* election.h - which node is the head of a detached job. Without paddlectl, a majority of the job's
 * voters decides. Pure logic without I/O: the caller passes messages and the time, in milliseconds
 * of a clock that only goes forward. job_vote.c has the connections.
 *
 *     head ── ping, HD_KEEP ──▶ voters          a head acts only while a majority answers its pings
 *     silent head: trial, then vote ──▶ voters  a majority makes the candidate the head
 *
 * This is the election of Raft (Ongaro and Ousterhout 2014, section 5.2), with these parts of its
 * later chapters: a trial before the vote, leases, and lists of voters that differ by one node
 * (docs/sources.md#election). The term of a head is its node id, and terms only rise. So a term has
 * one candidate, and two heads of one term are impossible. A node that has lost its head's part
 * never gets it again. An agent that is started again is no part of the job, so votes need no disk.
 *
 * Two heads never act at once. A voter votes only when it has not heard the head for vote_ms, and
 * does not answer an earlier head afterwards. A head counts its lease (lease_ms, shorter) from the
 * moment at which it sent the ping. Two majorities have a node in common, so the lease of the
 * earlier head has ended. */
#pragma once

#include "wire/bodies.h"

enum {
    ELECTION_VOTERS = WIRE_VOTERS,
    ELECTION_LEAST = WIRE_VOTERS_LEAST,
    ELECTION_ROUND_MS = 3000 /* a candidate's round; also the delay of each further candidate */
};

/* The nodes that vote. The version is (term, number): the head that made the list, and which of its
 * lists it is. The number also grows when something else changes that a next head needs. */
struct voters {
    int64_t term, number;
    int n;
    int node[ELECTION_VOTERS]; /* ascending */
};

struct election {
    int self;
    uint64_t lease_ms, vote_ms;
    struct voters voters;
    int leads;        /* this node is the head */
    int64_t followed; /* the head, or the candidate that has this node's vote */
    int64_t voted; /* the candidate that has this node's vote, and is not known as the head; -1 */
    uint64_t heard_ms; /* when this node last heard the head, or voted */
    /* a head, by place in `voters` */
    uint64_t acked_ms[ELECTION_VOTERS]; /* the last ping that the node has answered was sent then */
    int64_t stored[ELECTION_VOTERS];    /* the number that the node has stored */
    /* a candidate */
    int standing, trial;
    int granted[ELECTION_VOTERS];
    uint64_t asked_ms, next_ms;
};

/* The lease of a head whose nodes have this detach_lease; and how long a member waits for a head:
 * until an election is over. After detach_lease it has no process. attach_ms: attach_lease of a job
 * that began attached, otherwise 0. */
uint64_t election_lease_ms(uint64_t detach_ms);
uint64_t election_wait_ms(uint64_t detach_ms, uint64_t attach_ms);

void election_init(struct election *e, int self, int n_nodes, uint64_t detach_ms,
                   uint64_t attach_ms);
/* 1: there are enough voters for an election. Otherwise a head acts without a majority. */
int election_open(const struct election *e);
int election_has(const struct election *e, int node); /* the node is a voter */

/* --- the head --- */

/* This node is the head now. The voters that elected it have given it a lease. */
void election_lead(struct election *e);
void election_acked(struct election *e, int node, uint64_t sent_ms);
void election_stored(struct election *e, int node, int64_t number);
void election_changed(struct election *e); /* the voters must store a new number */
/* A lost node votes no more. 0: it is no voter, or a majority has not stored the present list yet:
 * try again later. `decided`: paddlectl has decided that the node is lost, so nothing is waited
 * for. */
int election_drop(struct election *e, int node, int decided);
/* 1: this head may act. */
int election_holds(const struct election *e, uint64_t now);

/* --- a member --- */

void election_heard(struct election *e, uint64_t when); /* the head was heard then */
void election_follow(struct election *e, int head, uint64_t now);
/* Stores the head's list. -1: it is no list of a head that this node follows, or an old one. */
int election_keep(struct election *e, const struct voters *v);
/* A candidate with this version asks for the vote. 1: it gets it. With `trial` nothing changes. */
int election_vote(struct election *e, int candidate, int64_t term, int64_t number, int trial,
                  uint64_t now);

/* 1: a round begins now, in which this node asks all other voters. */
int election_stand(struct election *e, uint64_t now);
enum election_step { ELECTION_WAIT, ELECTION_ASK, ELECTION_WON };
/* A voter has answered yes. ASK: a majority would vote for this node, which now asks for votes.
 * WON: it is the head; election_lead follows. */
enum election_step election_grant(struct election *e, int node, int trial, uint64_t now);
/* 1: the round is over without a majority, or the head was heard. */
int election_gives_up(struct election *e, uint64_t now);
