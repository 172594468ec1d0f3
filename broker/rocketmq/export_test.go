package rocketmq

// DecodeProperties is what tests read a message's properties with.
var DecodeProperties = decodeProperties

// Expressible compares the steps of a ladder with a broker's delay levels.
var Expressible = expressible
